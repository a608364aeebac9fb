// The scenarios in Node.js.
import { inNode } from './harness.js';
import { suite } from './scenarios.js';

suite(
  [
    ['websocket', 'json'],
    ['websocket', 'protobuf'],
    ['http_stream', 'json'],
    ['http_stream', 'protobuf'],
    ['sse', 'json'],
    ['sockjs-websocket', 'json'],
    ['sockjs-xhr-streaming', 'json'],
    ['sockjs-xhr-polling', 'json'],
    ['sockjs-eventsource', 'json'],
  ],
  () => inNode,
  { maps: true },
);
