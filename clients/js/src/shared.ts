export { share, type ShareOptions } from "./shared/hub.js";
export { shared } from "./shared/page.js";
