// A backend for Gyro's proxies, with Express. See README.md.
import express from "express";

const app = express();
app.use(express.json());

// What a database would have: sessions, and who is on the staff.
const sessions = new Map([
  ["Bearer ann-secret", "ann"],
  ["Bearer bob-secret", "bob"],
]);
const staff = new Set(["bob"]);
const banned = new Set();
const menu = { "menu:today": { soup: "Tomato" } };

// How long connections and subscriptions live until Gyro asks again.
const seconds = Number(process.env.SESSION_SECONDS ?? 60);
const later = () => Math.floor(Date.now() / 1000) + seconds;

app.use((request, _response, next) => {
  console.log(request.method, request.path);
  next();
});

app.post("/connect", (request, response) => {
  const user = sessions.get(request.get("Authorization"));
  if (user === undefined || banned.has(user)) {
    return response.json({ disconnect: { code: 4501, reason: "log in first" } });
  }
  const name = user[0].toUpperCase() + user.slice(1);
  response.json({ result: { user, expire_at: later(), info: { name }, data: { motd: "Welcome" } } });
});

app.post("/refresh", (request, response) => {
  response.json({ result: banned.has(request.body.user) ? { expired: true } : { expire_at: later() } });
});

const mayEnter = ({ user, channel }) => !banned.has(user) && (channel !== "chat:staff" || staff.has(user));

app.post("/subscribe", (request, response) => {
  if (!mayEnter(request.body)) return response.json({ error: { code: 403, message: "staff only" } });
  response.json({ result: { expire_at: later(), data: { topic: "Lunch" } } });
});

app.post("/sub_refresh", (request, response) => {
  response.json({ result: mayEnter(request.body) ? { expire_at: later() } : { expired: true } });
});

app.post("/publish", (request, response) => {
  const text = String(request.body.data.text ?? "").trim();
  if (!text) return response.json({ error: { code: 400, message: "say something" } });
  response.json({ result: { data: { text } } });
});

app.post("/rpc", (request, response) => {
  const { user, method, data } = request.body;
  if (method === "whoami") return response.json({ result: { data: { user } } });
  if (method === "ban" && staff.has(user)) {
    banned.add(data.user);
    return response.json({ result: {} });
  }
  response.json({ error: { code: 404, message: "no such method" } });
});

// A channel has no publication that its clients could begin with: it gets the latest state.
const gyro = process.env.GYRO_API ?? "http://localhost:8000/api";
app.post("/cache_empty", async (request, response) => {
  const { channel } = request.body;
  if (!menu[channel]) return response.json({});
  await fetch(`${gyro}/publish`, {
    method: "POST",
    headers: { "X-API-Key": "backend-secret" },
    body: JSON.stringify({ channel, data: menu[channel] }),
  });
  response.json({ result: { populated: true } });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, "127.0.0.1", () => console.log(`Running on port ${port}`));
