// The position of a subscription of either side.
import type { Position, PublicationMessage, SubscribeRequest, SubscribeResult } from "./protocol.js";

/** How the subscription stands, as events tell it. */
export interface Subscribed {
  /** Whether the server tried to deliver missed publications. */
  wasRecovering: boolean;
  /** Whether nothing was missed, or all of it comes now. */
  recovered: boolean;
  /** Whether the client can recover publications that it misses from now on. */
  recoverable: boolean;
  positioned: boolean;
  /** The position, if positioned. */
  position: Position | undefined;
  /** How many publications follow, which the server had when it subscribed the client. */
  publications: number;
  /** What the server's application sent along. */
  data: unknown;
}

/** What was lost: the publications between two positions. */
export interface Gap {
  from: Position | undefined;
  to: Position | undefined;
}

/** Follows the position. */
export class Stream {
  position: Position | undefined;
  recover = false;

  constructor(since?: Position) {
    this.position = since && { ...since };
    this.recover = !!since;
  }

  /** The part of a subscribe request that asks for recovery. */
  request(): SubscribeRequest {
    if (!this.recover) return {};
    return { recover: true, offset: this.position?.offset || undefined, epoch: this.position?.epoch || undefined };
  }

  /** Takes the position of a reply; tells of a gap if there is one. */
  begin(result: SubscribeResult): Gap | undefined {
    const from = this.position;
    if (result.recoverable) this.recover = true;
    const positioned = result.recoverable || result.positioned;
    if (!positioned) this.invalidate();
    else if (this.recover) this.position = positionOf(result, from);
    return result.was_recovering && !result.recovered ? { from, to: positioned ? this.position && { ...this.position } : undefined } : undefined;
  }

  /** Whether a publication is one that was there before. */
  has(pub: PublicationMessage): boolean {
    const { position } = this;
    return !!pub.offset && !!position && !pub.channel && pub.offset <= position.offset && (!pub.epoch || pub.epoch === position.epoch);
  }

  /** Moves on to a publication. */
  pass(pub: PublicationMessage): void {
    const { position } = this;
    if (!pub.offset || !position || position.epoch === "_" || pub.channel) return;
    if (pub.epoch) position.epoch = pub.epoch;
    position.offset = pub.offset;
  }

  /** Drops the position, so that the next subscribe tells of a gap. No server has a position like this. */
  invalidate(): void {
    if (this.recover) this.position = { offset: 0, epoch: "_" };
  }
}

/**
 * The position of a reply. In cache mode a server may recover from a position of another stream, and return its offset beside the epoch of
 * the stream of now: by that offset publications would be taken for old ones.
 */
function positionOf({ offset = 0, epoch = "", recovered }: SubscribeResult, from: Position | undefined): Position {
  return { offset: recovered && from?.epoch && from.epoch !== epoch ? 0 : offset, epoch };
}

/** What the event tells of a reply. */
export function subscribed(result: SubscribeResult, position: Position | undefined, data: unknown): Subscribed {
  const positioned = !!(result.positioned || result.recoverable);
  return {
    wasRecovering: !!result.was_recovering,
    recovered: !!result.recovered,
    recoverable: !!result.recoverable,
    positioned,
    position: positioned ? (result.recoverable && position ? { ...position } : positionOf(result, undefined)) : undefined,
    publications: result.publications?.length ?? 0,
    data,
  };
}
