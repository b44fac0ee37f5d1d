/** Numbers as people read them. */

/** Milliseconds for people. */
export function ms(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 ? `${value.toFixed(1)} ms` : value < 10_000 ? `${Math.round(value)} ms` : seconds(value / 1000);
}

/** Seconds for people. */
export function seconds(value) {
  return `${value.toFixed(value < 10 ? 1 : 0)} s`;
}

/** A time of the video: m:ss. */
export function clock(value) {
  const whole = Math.max(0, Math.floor(value));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Bytes for people. */
export function bytes(value) {
  if (value < 1e3) return `${value} B`;
  return value < 1e6 ? `${Math.round(value / 1e3)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}
