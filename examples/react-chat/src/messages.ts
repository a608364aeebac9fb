// What is in the room, as far as this page knows: what others and this page have said, and what this page is about to say.
import type { Publication } from "@gyrohq/client";
import type { Outbox, OutboxEntry } from "@gyrohq/client/outbox";
import { useChannel, useClient } from "@gyrohq/client/react";
import { useCallback, useEffect, useState } from "react";

/** What is published. The id is that of the sender's outbox: a message that was sent twice, as its answer was lost, is shown once. */
export interface Said {
  id: string;
  text: string;
}

export interface Message extends Said {
  user: string;
}

/** A message that the server has not published yet; error says why it will not. */
export interface Unsent extends Said {
  error?: string;
}

const message = ({ data, info }: Publication<Said>): Message => ({ ...data, user: info?.user ?? "server" });

/** The messages, with those that are new at their end. */
function add(all: readonly Message[], some: readonly Message[]): readonly Message[] {
  const known = new Set(all.map(({ id }) => id));
  return [...all, ...some.filter(({ id }) => !known.has(id))].slice(-500);
}

export function useMessages(channel: string) {
  const client = useClient();
  const [messages, set] = useState<readonly Message[]>([]);
  const { error } = useChannel<Said>(channel, {
    joinLeave: true,
    keep: 0,
    // The last messages: when the page comes, and when it has missed more than the server keeps. All others follow by themselves.
    getState: async ({ signal }) => {
      const { publications, offset, epoch } = await client.history<Said>(channel, { limit: 50, reverse: true, signal });
      set(all => add(all, publications.reverse().map(message)));
      return { offset, epoch };
    },
    onPublication: publication => set(all => add(all, [message(publication)])),
  });
  return { messages, error };
}

// Keys have to be different from all others, and no more: not every phone has a source of random bytes in JavaScript.
const page = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
let keys = 0;

export function useSending(box: Outbox, channel: string, before: readonly OutboxEntry[]) {
  const [unsent, set] = useState<readonly Unsent[]>(() => before.map(({ key, data }) => ({ id: key, text: (data as { text: string }).text })));
  const drop = (id: string) => set(all => all.filter(one => one.id !== id));
  const failed = useCallback(
    (id: string, error: unknown) =>
      set(all => all.map(one => (one.id === id ? { ...one, error: error instanceof Error ? error.message : String(error) } : one))),
    [],
  );

  useEffect(() => box.on("outcome", ({ entry, ...how }) => "error" in how && failed(entry.key, how.error)), [box, failed]);

  /** Shows a message at once, and sends it when that is possible; with the id of one that failed, that one. */
  const send = (text: string, id = `${page}-${++keys}`) => {
    set(all => [...all.filter(one => one.id !== id), { id, text }]);
    box.publish(channel, { text }, { key: id }).accepted.catch(error => failed(id, error));
  };
  return { unsent, send, drop };
}
