// transports.js: three ways to a server. Each function returns a connection, to send commands over
// and to close. It calls receive with each message, and ended once the connection has ended.
export const transports = { websocket, http_stream, sse };

// A WebSocket carries both directions. Its Close frame says why the server ended it.
function websocket(server, receive, ended) {
  const socket = new WebSocket(server.replace(/^http/, 'ws') + '/connection/websocket');
  const opened = new Promise(resolve => {
    socket.onopen = resolve;
  });
  socket.onmessage = event =>
    event.data
      .trim()
      .split('\n')
      .forEach(line => receive(line));
  socket.onclose = ended;
  return { send: command => opened.then(() => socket.send(command)), close: () => socket.close() };
}

// An HTTP stream is the answer to a request that does not end: a message on each line.
function http_stream(server, receive, ended) {
  const stop = new AbortController();
  const read = async first => {
    const answer = await fetch(server + '/connection/http_stream', { method: 'POST', body: first, signal: stop.signal });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part, rest = ''; !(part = await reader.read()).done; ) {
      const lines = (rest + part.value).split('\n');
      rest = lines.pop();
      lines.forEach(line => receive(line));
    }
  };
  return stream(
    server,
    ended,
    first =>
      read(first)
        .catch(() => {})
        .then(() => ended({})),
    () => stop.abort(),
  );
}

// SSE is the same in the browser's own format: a message in each event.
function sse(server, receive, ended) {
  let source;
  const open = first => {
    source = new EventSource(server + '/connection/sse?cf_connect=' + encodeURIComponent(first));
    source.onmessage = event => receive(event.data);
    source.onerror = () => {
      source.close(); // it would come back by itself, with the first command alone
      ended({});
    };
  };
  return stream(server, ended, open, () => source?.close());
}

// A stream takes one command, the first one. All others go by requests, one after another so that
// they stay in order. Each names the session, which the reply to the first command has told.
function stream(server, ended, open, close) {
  let last;
  const post = async data => {
    const answer = await fetch(server + '/emulation', { method: 'POST', body: JSON.stringify({ ...connection.session, data }) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
  };
  const connection = {
    close,
    send(command) {
      if (last) {
        last = last.then(() => post(command)).catch(() => ended({}));
      } else {
        last = Promise.resolve();
        open(command);
      }
    },
  };
  return connection;
}
