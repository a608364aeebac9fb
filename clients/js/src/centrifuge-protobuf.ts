// What npm centrifuge has as centrifuge/build/protobuf: payloads are bytes.
import { Centrifuge as JSONCentrifuge } from "./centrifuge.js";
import type { Codec } from "./codec.js";
import { protobuf } from "./protobuf.js";

export { EventEmitter, type Listener, MapSubscription, SharedPollSubscription, Subscription, UnauthorizedError } from "./centrifuge.js";
export type { BaseSubscription } from "./centrifuge.js";
export * from "./centrifuge/types.js";

/** The client with the Protobuf encoding: the application gives and gets Uint8Array. */
export class Centrifuge extends JSONCentrifuge {
  /** @internal */
  override _encoding(): Codec {
    return protobuf({ binary: true });
  }
}
