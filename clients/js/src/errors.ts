/** A failure of the server or of the SDK. Codes below 100 belong to the SDK; docs/sdk-spec.md lists them. */
export class GyroError extends Error {
  /** The code. */
  readonly code: number;
  /** Whether the same may succeed later. */
  readonly temporary: boolean;

  /** @param cause the error, or the Reason, behind this error */
  constructor(code: number, message: string, temporary = code < 100, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "GyroError";
    this.code = code;
    this.temporary = temporary;
  }
}

/** Why a state was entered. */
export interface Reason {
  code: number;
  reason: string;
}

const states = { 3: "client disconnected", 7: "subscription unsubscribed" };

/** The error of a call or a wait that needs a state which will not come, with the reason of the state that came instead. */
export function over(code: keyof typeof states, reason?: Reason): GyroError {
  const why = reason ? `: ${reason.code} ${reason.reason}` : "";
  return new GyroError(code, states[code] + why, false, reason);
}

/** The error of a call whose payload, or another value, cannot be encoded. */
export function unencodable(error: unknown): GyroError {
  return new GyroError(10, `transport write error: ${(error as Error)?.message ?? error}`, false, error);
}

/** What callbacks for tokens throw if the user may not connect or subscribe: the client does not ask again. */
export class UnauthorizedError extends Error {
  constructor(message = "unauthorized") {
    super(message);
    this.name = "UnauthorizedError";
  }
}
