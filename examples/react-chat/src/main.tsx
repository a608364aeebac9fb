import { Client, UnauthorizedError } from "@gyrohq/client";
import { outbox } from "@gyrohq/client/outbox";
import { ClientProvider } from "@gyrohq/client/react";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Chat } from "./chat";
import { sessionStore } from "./store";

const user = new URLSearchParams(location.search).get("user") ?? "guest";

async function getToken({ signal }: { signal: AbortSignal }): Promise<string> {
  const response = await fetch(`/token?user=${encodeURIComponent(user)}`, { signal });
  if (response.status === 404) throw new UnauthorizedError(); // asking again would not help
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.text();
}

// One client, and one outbox, as long as the page is there. What waits in the outbox outlives a reload.
const client = new Client(document.documentElement.dataset.gyro!, { getToken, name: "react-chat" });
const store = sessionStore(`outbox of ${user}`);
const box = outbox(client, { store, withKey: ({ data, key }) => ({ ...(data as object), id: key }) });
client.connect();

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <ClientProvider client={client}>
      <Chat user={user} box={box} unsent={store.entries()} />
    </ClientProvider>
  </StrictMode>,
);
