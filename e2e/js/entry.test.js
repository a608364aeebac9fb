// The scenarios in Node.js, with the entry of the client for JavaScript that has the API of npm centrifuge.
import { Centrifuge as JSONClient } from '@gyrohq/client/centrifuge';
import { Centrifuge as ProtobufClient } from '@gyrohq/client/centrifuge/protobuf';
import { nodeWith } from './harness.js';
import { suite } from './scenarios.js';

const place = nodeWith({ json: JSONClient, protobuf: ProtobufClient });
suite(
  [
    ['websocket', 'json'],
    ['websocket', 'protobuf'],
    ['http_stream', 'json'],
    ['http_stream', 'protobuf'],
    ['sse', 'json'],
  ],
  () => place,
  { maps: true, sdk: '@gyrohq/client/centrifuge' },
);
