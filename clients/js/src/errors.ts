/** A failure of the server or of the SDK. Codes below 100 are those of the SDK; docs/sdk-spec.md lists them. */
export class GyroError extends Error {
  /** The code. */
  readonly code: number;
  /** Whether the same may succeed later. */
  readonly temporary: boolean;

  constructor(code: number, message: string, temporary = code < 100) {
    super(message);
    this.name = "GyroError";
    this.code = code;
    this.temporary = temporary;
  }
}

/** What callbacks for tokens throw if the user may not connect or subscribe: the client does not ask again. */
export class UnauthorizedError extends Error {
  constructor(message = "unauthorized") {
    super(message);
    this.name = "UnauthorizedError";
  }
}
