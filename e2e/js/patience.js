// patience bounds every wait, in milliseconds; only a fault takes as long.
export const patience = 60_000;

// whole bounds a test, which waits many times.
export const whole = 5 * patience;
