import type { Platform } from "@gyrohq/client";
import NetInfo from "@react-native-community/netinfo";
import { AppState } from "react-native";

/**
 * Tells the client what a phone notices: that the application is in front again, and that the network is there, gone, or another one. The
 * client then looks within seconds whether its connection still works, instead of waiting for the next ping of the server.
 */
export const phone: Platform = notice => {
  const app = AppState.addEventListener("change", state => {
    if (state === "active") notice("wake");
  });
  let before: string | undefined; // the first call tells of what is there already
  const stop = NetInfo.addEventListener(({ isConnected, type }) => {
    const now = `${type} ${isConnected}`;
    if (before && before !== now) notice(isConnected === false ? "offline" : "online");
    before = now;
  });
  return () => {
    app.remove();
    stop();
  };
};
