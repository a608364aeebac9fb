// The latest publications of a channel, for tabs that come or come back.
import type { Position, PublicationMessage, SubscribeRequest, SubscribeResult } from "../protocol.js";

export class Log {
  #position: Position | undefined;
  #from = 0; // the offset behind which all publications are here
  #publications: PublicationMessage[] = [];

  constructor(readonly most: number) {}

  /** Begins at the position of a reply; goes on if it is the one where it is. */
  begin({ recoverable, offset = 0, epoch = "" }: SubscribeResult): void {
    if (recoverable && this.#position?.offset === offset && this.#position.epoch === epoch) return;
    this.#position = recoverable ? { offset, epoch } : undefined;
    this.#from = offset;
    this.#publications = [];
  }

  /** Adds a publication, unless it is here already: then false. */
  add(pub: PublicationMessage): boolean {
    const position = this.#position;
    const { offset, epoch } = pub;
    if (!offset || !position || pub.channel) return true;
    if (epoch && epoch !== position.epoch) this.begin({ recoverable: true, offset, epoch });
    else if (offset <= position.offset) return false;
    else {
      this.#publications.push(pub);
      if (this.#publications.length > this.most) this.#from = this.#publications.shift()!.offset!;
      position.offset = offset;
    }
    return true;
  }

  /** The part of a reply with the tab's position and its missed publications. */
  answer(request: SubscribeRequest): SubscribeResult {
    if (!this.#position) return {};
    const { offset, epoch } = this.#position;
    const now = { recoverable: true, positioned: true, offset, epoch };
    if (!request.recover) return now;
    const { offset: since = 0 } = request;
    if (since < this.#from || request.epoch !== epoch) return { ...now, was_recovering: true };
    const publications = this.#publications.filter(pub => pub.offset! > since);
    return { ...now, offset: since, was_recovering: true, recovered: true, publications };
  }
}
