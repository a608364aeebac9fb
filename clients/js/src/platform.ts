/** What a platform notices: the network is there, or gone; or the machine, or the page, was asleep or the network changed. */
export type PlatformEvent = "online" | "offline" | "wake";

/** Reports events of the platform, until the returned function is called. */
export type Platform = (notice: (event: PlatformEvent) => void) => () => void;

const listeners = new Set<(event: PlatformEvent) => void>();
let stop: (() => void) | undefined;

// Listens to the events of browsers, if this is one, and looks for time that passed unseen.
function start(): () => void {
  const tell = (event: PlatformEvent) => {
    for (const one of [...listeners]) one(event);
  };
  const scope = globalThis as any;
  const target: EventTarget | undefined = scope.addEventListener && scope;
  const page: (EventTarget & { hidden?: boolean }) | undefined = scope.document;
  const network: EventTarget | undefined = scope.navigator?.connection;
  const online = () => tell("online");
  const offline = () => tell("offline");
  const wake = () => {
    if (!page?.hidden) tell("wake");
  };
  const heard: [EventTarget | undefined, string, () => void][] = [
    [target, "online", online],
    [target, "offline", offline],
    [target, "pageshow", wake],
    [page, "visibilitychange", wake],
    [page, "resume", wake],
    [network, "change", wake],
  ];
  for (const [where, name, what] of heard) where?.addEventListener?.(name, what);
  let seen = Date.now();
  const timer: any = setInterval(() => {
    const now = Date.now();
    if (now - seen > 10_000) wake();
    seen = now;
  }, 5000);
  timer.unref?.();
  return () => {
    clearInterval(timer);
    for (const [where, name, what] of heard) where?.removeEventListener?.(name, what);
  };
}

/** The platform that the program runs on. All clients share one watch of it. */
export const platform: Platform = notice => {
  listeners.add(notice);
  stop ??= start();
  return () => {
    listeners.delete(notice);
    if (listeners.size) return;
    stop?.();
    stop = undefined;
  };
};
