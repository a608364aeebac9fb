// patience bounds every wait, in milliseconds; only a fault takes as long.
export const patience = 60_000;
