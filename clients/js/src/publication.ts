// What the application gets of messages.
import type { Codec } from "./codec.js";
import type { ClientInfoMessage, PublicationMessage } from "./protocol.js";

/** Who published, joined or is present. */
export interface ClientInfo {
  user: string;
  client: string;
  /** What the server knows of the connection, and of its subscription. */
  connInfo: unknown;
  chanInfo: unknown;
}

/** A message of a channel. */
export interface Publication<T = unknown> {
  /** The channel; with wildcard subscriptions the one that was published to. */
  channel: string;
  data: T;
  /** The offset in the channel's stream; undefined if it is in none. */
  offset: number | undefined;
  tags: Record<string, string> | undefined;
  /** Who published it, if a client did. */
  info: ClientInfo | undefined;
  /** Of maps and shared poll: the key, whether it was removed, its score, its version. */
  key: string | undefined;
  removed: boolean;
  score: number | undefined;
  version: number | undefined;
}

export function clientInfo(codec: Codec, info: ClientInfoMessage): ClientInfo {
  return {
    user: info.user ?? "",
    client: info.client ?? "",
    connInfo: codec.value(info.conn_info),
    chanInfo: codec.value(info.chan_info),
  };
}

/** A publication with data, which the caller has made of the message's payload. */
export function publication(codec: Codec, channel: string, message: PublicationMessage, data: unknown): Publication<any> {
  return {
    channel: message.channel || channel,
    data,
    offset: message.offset || undefined,
    tags: message.tags,
    info: message.info && clientInfo(codec, message.info),
    key: message.key,
    removed: !!message.removed,
    score: message.score,
    version: message.version,
  };
}
