// Callbacks of the application, and tokens that have to be fetched and refreshed by them.
import type { Codec } from "./codec.js";
import { GyroError, UnauthorizedError } from "./errors.js";
import type { Expiry } from "./protocol.js";
import { backoff, later } from "./time.js";

/** What callbacks are told. */
export interface CallbackContext {
  /** The channel; undefined for the connection. */
  channel?: string;
  /** Aborts when the callback's result is of no use any more. */
  signal: AbortSignal;
}

/** What a callback may return: a value, or a promise of it. */
export type Callback<T, Context = CallbackContext> = (context: Context) => T | Promise<T>;

/**
 * Asks a callback. One of got and failed is called, unless signal aborts before; without an error, failed says that the user may
 * not do this.
 */
export function ask<T, Context extends CallbackContext>(
  callback: Callback<T, Context>,
  context: Omit<Context, "signal">,
  signal: AbortSignal,
  code: number,
  what: string,
  got: (value: T) => void,
  failed: (error?: GyroError) => void,
): void {
  // Chained, so that a callback that throws is like one that rejects.
  Promise.resolve({ ...context, signal } as Context)
    .then(callback)
    .then(
      value => {
        if (!signal.aborted) got(value);
      },
      error => {
        if (signal.aborted) return;
        if (error instanceof UnauthorizedError) failed();
        else failed(new GyroError(code, `${what} failed: ${error?.message ?? error}`));
      },
    );
}

/** A callback whose value is encoded: what cannot be is an error of the callback. */
export const payloadOf =
  (callback: Callback<unknown>, codec: Codec): Callback<unknown> =>
  async context =>
    codec.payload(await callback(context));

/** What has a token that expires: a connection, or a subscription. */
export interface Holder {
  getToken: Callback<string> | undefined;
  context: { channel?: string };
  /** The part of the connection's or the subscription's life in which tokens are refreshed. */
  signal: AbortSignal;
  code: number;
  what: string;
  send(token: string, done: (error: GyroError | undefined, result?: Expiry) => void): void;
  error(error: GyroError): void;
  end(code: number, reason: string): void;
}

/** Keeps the token of a holder fresh, from the server's expiration on. */
export function keepFresh(holder: Holder, expiry: Expiry): void {
  const { getToken, signal } = holder;
  if (!expiry.expires || !getToken) return;
  const retry = (error: GyroError) => {
    holder.error(error);
    later(backoff(0, 5000, 10_000), signal, refresh);
  };
  const unauthorized = () => holder.end(1, "unauthorized");
  const refresh = () =>
    ask(
      getToken,
      holder.context,
      signal,
      holder.code,
      `${holder.what} refresh`,
      token => {
        if (!token) return unauthorized();
        holder.send(token, (error, result) => {
          if (signal.aborted) return;
          if (!error) keepFresh(holder, result ?? {});
          else if (error.temporary) retry(error);
          else holder.end(error.code, error.message);
        });
      },
      error => (error ? retry(error) : unauthorized()),
    );
  later(Math.max(1, expiry.ttl ?? 0) * 1000, signal, refresh);
}
