// Payloads of messages, between the form for applications and the form of an encoding.
import type { Codec } from "../codec.js";
import type { ClientInfoMessage, PublicationMessage, Reply, Request } from "../protocol.js";

/** A request of a tab, as the connection carries it. */
export function encoded(codec: Codec, request: Request): Request {
  const { publish, rpc, subscribe } = request;
  const data = (one: { data?: unknown }) => ({ data: codec.payload(one.data) });
  if (publish) return { publish: { ...publish, ...data(publish) } };
  if (rpc) return { rpc: { ...rpc, ...data(rpc) } };
  if (subscribe) return { subscribe: { ...subscribe, ...data(subscribe) } };
  return request;
}

export function info(codec: Codec, { conn_info, chan_info, ...rest }: ClientInfoMessage = {}): ClientInfoMessage {
  return { ...rest, conn_info: codec.value(conn_info), chan_info: codec.value(chan_info) };
}

/** A publication without delta, as tabs get it. */
export function decodedPub(codec: Codec, pub: PublicationMessage): PublicationMessage {
  return { ...pub, data: codec.value(pub.data), ...(pub.info && { info: info(codec, pub.info) }) };
}

/** A reply, as tabs get it. */
export function decoded(codec: Codec, reply: Reply): Reply {
  const { rpc, history, presence, subscribe, sub_refresh } = reply;
  const pubs = (all?: PublicationMessage[]) => all?.map(pub => decodedPub(codec, pub)) ?? [];
  if (rpc) return { rpc: { data: codec.value(rpc.data) } };
  if (history) return { history: { ...history, publications: pubs(history.publications) } };
  if (presence) {
    return { presence: { presence: Object.fromEntries(Object.entries(presence.presence ?? {}).map(([id, one]) => [id, info(codec, one)])) } };
  }
  if (sub_refresh) return { sub_refresh: { ...sub_refresh, items: pubs(sub_refresh.items) } };
  if (!subscribe) return reply;
  const { id: _, delta: __, data, publications, state, ...rest } = subscribe;
  return { subscribe: { ...rest, data: codec.value(data), publications: pubs(publications), ...(state && { state: pubs(state) }) } };
}
