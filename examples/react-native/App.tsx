import { Client, UnauthorizedError } from "@gyrohq/client";
import { outbox } from "@gyrohq/client/outbox";
import { ClientProvider, useConnectionState } from "@gyrohq/client/react";
import { useEffect, useState } from "react";
import { FlatList, KeyboardAvoidingView, Pressable, StyleSheet, Text, TextInput, View } from "react-native";
import { type Message, type Unsent, useMessages, useSending } from "./messages"; // of examples/react-chat/src
import { phone } from "./phone";

// The backend of examples/react-chat, and Gyro. A phone does not know localhost: put the address of your computer here.
const backend = "http://localhost:3000";
const server = "ws://localhost:8000/connection/websocket";
const user = "carl";
const channel = "chat:lobby";

/** A message, or one that is not published yet. */
type Shown = Unsent & Partial<Message>;

async function getToken({ signal }: { signal: AbortSignal }): Promise<string> {
  const response = await fetch(`${backend}/token?user=${user}`, { signal });
  if (response.status === 404) throw new UnauthorizedError();
  if (!response.ok) throw new Error(`${backend} answers ${response.status}`);
  return response.text();
}

// One client, and one outbox, as long as the application runs.
const client = new Client(server, { getToken, platform: phone, name: "react-native" });
const box = outbox(client, { withKey: ({ data, key }) => ({ ...(data as object), id: key }) });
client.connect();

function Room() {
  const { messages, error } = useMessages(channel);
  const { unsent, send, drop } = useSending(box, channel, []);
  const state = useConnectionState();
  const [text, write] = useState("");

  // The newest is the first, as the list is turned round. What was sent is a message as soon as it comes back.
  const here = new Set(messages.map(({ id }) => id));
  const all: Shown[] = [...messages, ...unsent.filter(({ id }) => !here.has(id))].reverse();
  useEffect(() => unsent.filter(({ id }) => here.has(id)).forEach(({ id }) => drop(id)));

  const submit = () => {
    if (!text.trim()) return;
    send(text.trim());
    write("");
  };

  return (
    <KeyboardAvoidingView style={styles.room} behavior="padding">
      <Text style={styles.state} accessibilityLiveRegion="polite">
        {error ? `${state}: ${error.message}` : state}
      </Text>
      <FlatList
        inverted
        data={all}
        keyExtractor={({ id }) => id}
        renderItem={({ item: { id, text, user, error } }) => (
          <Pressable style={styles.message} disabled={!error} accessibilityHint={error && "Sends it again"} onPress={() => send(text, id)}>
            <Text style={styles.by}>{user ?? (error ? `not sent: ${error} Press to try again.` : "sending…")}</Text>
            <Text style={styles.text}>{text}</Text>
          </Pressable>
        )}
      />
      <View style={styles.form}>
        <TextInput
          style={styles.input}
          accessibilityLabel="Message"
          placeholder="Message"
          value={text}
          onChangeText={write}
          onSubmitEditing={submit}
          submitBehavior="submit"
        />
        <Pressable style={styles.send} accessibilityRole="button" onPress={submit}>
          <Text style={styles.text}>Send</Text>
        </Pressable>
      </View>
    </KeyboardAvoidingView>
  );
}

export default function App() {
  return (
    <ClientProvider client={client}>
      <Room />
    </ClientProvider>
  );
}

const styles = StyleSheet.create({
  room: { flex: 1, paddingTop: 48, backgroundColor: "#fbfaf8" },
  state: { paddingHorizontal: 16, paddingBottom: 8, color: "#5c5c63" },
  message: { marginHorizontal: 16, marginVertical: 4, padding: 8, borderRadius: 12, backgroundColor: "#e4efff" },
  by: { color: "#5c5c63", fontSize: 12 },
  text: { color: "#1d1d1f", fontSize: 16 },
  form: { flexDirection: "row", gap: 8, padding: 16 },
  input: { flex: 1, padding: 10, borderWidth: 1, borderColor: "#5c5c63", borderRadius: 10, fontSize: 16 },
  send: { justifyContent: "center", paddingHorizontal: 16, borderWidth: 1, borderColor: "#0b57d0", borderRadius: 10 },
});
