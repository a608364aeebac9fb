// What tabs and their worker tell each other: the messages of the protocol as objects, and what has to be told beside them.
import type { Command, ErrorMessage, Reply } from "../protocol.js";

/** From a tab to the worker. */
export interface FromTab {
  /** The first message: whether the tab can be asked for tokens. */
  hello?: { asks: boolean };
  /** The lock that the tab holds while it lives. */
  lock?: string;
  commands?: Command[];
  /** The answer to an ask of that number. */
  answer?: { to: number; token?: string; error?: string; unauthorized?: boolean };
  /** What the tab notices of networks and sleep. */
  notice?: "online" | "offline" | "wake";
  /** The tab leaves. */
  bye?: boolean;
}

/** From the worker to a tab. */
export interface FromWorker {
  /** The lock that the worker holds while both live. It ends with the tab that made it if that crashes. */
  lock?: string;
  /** The tab's connect command waits for the connection. */
  held?: boolean;
  replies?: Reply[];
  /** Ends what began with the tab's connect command; with a code as a server would give it. */
  ended?: { code: number; reason: string };
  /** Asks for a token. */
  ask?: number;
  /** An attempt of the worker failed. */
  error?: ErrorMessage;
  /** Tells a tab that waits for its next attempt to make it. */
  up?: boolean;
}

/** How often the worker pings tabs, in seconds. A tab that answers two of them not leaves. */
export const ping = 25;
