// From what this client tells to what npm centrifuge tells.
import { GyroError } from "../errors.js";
import type { ClientInfo as Info, Publication } from "../publication.js";
import type { Subscribed } from "../stream.js";
import type { ClientInfo, HistoryOptions, MapUpdateContext, PublicationContext, SharedPollUpdateContext, SubscribedContext } from "./types.js";

export function clientInfo({ client, user, connInfo, chanInfo }: Info): ClientInfo {
  return { client, user, ...(connInfo !== undefined && { connInfo }), ...(chanInfo !== undefined && { chanInfo }) };
}

/** A publication, with the channel that it was published to. */
export function publication({ channel, data, offset, info, tags }: Publication<any>): PublicationContext {
  return { channel, data, ...(offset !== undefined && { offset }), ...(info && { info: clientInfo(info) }), ...(tags && { tags }) };
}

export function mapUpdate(pub: Publication<any>): MapUpdateContext {
  return { ...publication(pub), key: pub.key ?? "", ...(pub.removed && { removed: true }) };
}

export function pollUpdate({ channel, key = "", data, removed, version }: Publication<any>): SharedPollUpdateContext {
  return { channel, key, data: removed ? null : data, ...(removed && { removed }), ...(version !== undefined && { version }) };
}

export function subscribed(channel: string, one: Subscribed): SubscribedContext {
  const { recoverable, positioned, wasRecovering, recovered, position, publications, data } = one;
  return {
    channel,
    recoverable,
    positioned,
    wasRecovering,
    recovered,
    hasRecoveredPublications: publications > 0,
    ...(position && { streamPosition: position }),
    ...(data !== undefined && { data }),
  };
}

/** The options that have a value: undefined and null count as absent. */
export function given<T extends object>(options: T): { [Name in keyof T]?: Exclude<T[Name], undefined | null> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined && value !== null)) as never;
}

export const historyOptions = ({ limit, since, reverse }: HistoryOptions = {}) =>
  given({ limit, since: since && { offset: since.offset, epoch: since.epoch ?? "" }, reverse });

export const timeout = () => new GyroError(1, "timeout");

/** Waits for one of two events of the same emitter. */
export function either(
  of: { on(name: string, listener: (event: any) => void): () => void },
  good: string,
  bad: string,
  error: (event: any) => GyroError,
  ms: number | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (then: () => void) => {
      clearTimeout(timer);
      for (const off of offs) off();
      then();
    };
    const offs = [of.on(good, () => end(resolve)), of.on(bad, event => end(() => reject(error(event))))];
    const timer = ms ? setTimeout(() => end(() => reject(timeout())), ms) : undefined;
  });
}
