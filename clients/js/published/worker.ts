// The worker whose connection all tabs share.
import { share } from "@gyrohq/client/shared";

share("wss://example.com/connection/websocket");
