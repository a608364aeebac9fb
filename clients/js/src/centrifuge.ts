// The class, events and names of npm centrifuge, on this client: an application changes one import.
export { UnauthorizedError } from "./errors.js";
export { Centrifuge } from "./centrifuge/client.js";
export { EventEmitter, type Listener } from "./centrifuge/emitter.js";
export { type BaseSubscription, MapSubscription, SharedPollSubscription, Subscription } from "./centrifuge/subscription.js";
export * from "./centrifuge/types.js";
