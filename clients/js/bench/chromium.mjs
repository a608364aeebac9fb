// Chromium by its own protocol, in which nothing is enabled that is not asked for. Playwright has all network traffic told: so the page, the browser and this
// process would handle each frame as text once more, which takes longer than this client does.
import { spawn } from "node:child_process";
import { chrome } from "../../../e2e/js/local.js";

const flags = [
  "--headless",
  "--remote-debugging-pipe",
  "--js-flags=--expose-gc",
  "--disable-background-timer-throttling",
  "--disable-renderer-backgrounding",
  "--disable-dev-shm-usage",
];

/** Starts Chromium with a page; profile is a folder for what it stores. */
export async function open(url, profile) {
  const browser = spawn(chrome.executablePath, [...chrome.args, ...flags, `--user-data-dir=${profile}`, "about:blank"], {
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
  });
  const [, , , input, output] = browser.stdio;
  const waiting = new Map();
  const ended = new Promise(resolve => browser.on("close", resolve));
  void ended.then(code => waiting.forEach(({ reject }) => reject(new Error(`Chromium ended with ${code}`))));
  input.on("error", () => {}); // it ended, which is told above
  let rest = "";
  output.setEncoding("utf8").on("data", text => {
    const all = (rest + text).split("\0");
    rest = all.pop();
    for (const { id, result, error } of all.map(one => JSON.parse(one))) {
      if (error) waiting.get(id)?.reject(new Error(error.message));
      else waiting.get(id)?.resolve(result);
      waiting.delete(id);
    }
  });
  let last = 0;
  const send = (method, params = {}, sessionId) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      input.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
    });

  const { targetId } = await send("Target.createTarget", { url });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const page = (method, params) => send(method, params, sessionId);
  return {
    page,
    /** The value of an expression in the page, or of its promise. */
    async evaluate(expression) {
      const { result, exceptionDetails } = await page("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    async close() {
      send("Browser.close").catch(() => {});
      await ended;
    },
    pid: browser.pid,
  };
}
