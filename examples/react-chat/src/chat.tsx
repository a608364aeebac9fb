import type { Outbox, OutboxEntry } from "@gyrohq/client/outbox";
import { useConnectionState, usePresence } from "@gyrohq/client/react";
import { type FormEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useMessages, useSending } from "./messages";

const channel = "chat:lobby";
const states = { connected: "Connected", connecting: "Connecting… What you write is sent later.", disconnected: "Disconnected" };

export function Chat({ user, box, unsent: before }: { user: string; box: Outbox; unsent: readonly OutboxEntry[] }) {
  const { messages, error } = useMessages(channel);
  const { unsent, send, drop } = useSending(box, channel, before);
  const present = usePresence(channel);
  const state = useConnectionState();
  const [text, write] = useState("");
  const list = useRef<HTMLOListElement>(null);

  // What was sent is shown as a message as soon as it comes back, so that it is never missing in between.
  const here = new Set(messages.map(({ id }) => id));
  const waiting = unsent.filter(({ id }) => !here.has(id));
  useEffect(() => unsent.filter(({ id }) => here.has(id)).forEach(({ id }) => drop(id)));

  // biome-ignore lint/correctness/useExhaustiveDependencies: one more message is the reason to scroll
  useLayoutEffect(() => {
    list.current?.lastElementChild?.scrollIntoView({ block: "nearest" });
  }, [messages.length, waiting.length]);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    send(text.trim());
    write("");
  };

  return (
    <main>
      <header>
        <h1>Lobby</h1>
        <p role="status">{error ? `${states[state]}: ${error.message}` : states[state]}</p>
        <p>Here: {[...new Set(Object.values(present).map(info => info.user))].sort().join(", ") || "nobody yet"}</p>
      </header>
      <div className="log" role="log" aria-label="Messages" tabIndex={0}>
        <ol ref={list}>
          {messages.map(({ id, user: by, text }) => (
            <li key={id} className={by === user ? "mine" : undefined}>
              <small>{by}</small>
              {text}
            </li>
          ))}
          {waiting.map(({ id, text, error }) => (
            <li key={id} className="mine waiting">
              <small className={error && "failed"}>{error ? `not sent: ${error}` : "sending…"}</small>
              {text}
              {error && (
                <button type="button" onClick={() => send(text, id)}>
                  Try again
                </button>
              )}
              {error && (
                <button type="button" onClick={() => drop(id)}>
                  Discard
                </button>
              )}
            </li>
          ))}
        </ol>
      </div>
      <form onSubmit={submit}>
        <label htmlFor="text">Message</label>
        <input id="text" value={text} maxLength={1000} autoComplete="off" placeholder="Message" onChange={event => write(event.target.value)} />
        <button type="submit">Send</button>
      </form>
    </main>
  );
}
