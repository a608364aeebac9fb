// Serves the page, and gives tokens, by which Gyro knows who a client is. Here everybody may be anybody: your application asks for
// a password, and reads the user from its session.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { SignJWT } from "jose";

const folder = import.meta.dirname;
const port = Number(process.env.PORT ?? 3000);
const gyro = process.env.REALTIME_WEBSOCKET ?? "ws://localhost:8000/connection/websocket";
const { client } = JSON.parse(await readFile(`${folder}/config.json`, "utf8"));
const secret = new TextEncoder().encode(client.token.hmac_secret_key);
const files = { "/": ["index.html", "text/html"], "/main.js": ["dist/main.js", "text/javascript"], "/style.css": ["style.css", "text/css"] };

const token = user => new SignJWT({ sub: user }).setProtectedHeader({ alg: "HS256" }).setExpirationTime("10m").sign(secret);

createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://localhost");
  const user = searchParams.get("user") ?? "";
  if (pathname === "/token" && /^\w{1,20}$/.test(user)) return response.end(await token(user));
  if (!Object.hasOwn(files, pathname)) return response.writeHead(404).end("there is no such page\n");
  const [file, type] = files[pathname];
  response.setHeader("Content-Type", type);
  response.end((await readFile(`${folder}/${file}`, "utf8")).replace("REALTIME_WEBSOCKET", gyro));
}).listen(port, "localhost", () => console.log(`chat at http://localhost:${port}/?user=ann`));
