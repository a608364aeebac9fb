import type { OutboxEntry, OutboxStore } from "@gyrohq/client/outbox";

/** Keeps what has to be sent in this tab, over reloads. */
export function sessionStore(name: string): OutboxStore & { entries(): OutboxEntry[] } {
  const entries = () => JSON.parse(sessionStorage.getItem(name) ?? "[]") as OutboxEntry[];
  const keep = (all: OutboxEntry[]) => sessionStorage.setItem(name, JSON.stringify(all));
  return {
    entries,
    load: async () => entries(),
    put: async entry => keep([...entries(), entry]),
    delete: async id => keep(entries().filter(entry => entry.id !== id)),
  };
}
