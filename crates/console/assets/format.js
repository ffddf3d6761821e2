// Numbers and times as text: 12.3 k, 4.2 GiB, 1.3 ms. Unknown values are a dash.
const NONE = '-';
const known = (n) => n !== null && n !== undefined && !Number.isNaN(Number(n));

/** Three significant digits, without an exponent. */
function digits(n) {
  const abs = Math.abs(n);
  if (abs >= 100 || Number.isInteger(n)) return String(Math.round(n));
  return n.toFixed(abs >= 10 ? 1 : abs >= 0.095 ? 2 : 3).replace(/\.?0+$/, '') || '0';
}

function scaled(n, step, units, gap = ' ') {
  let i = 0;
  let rest = Number(n);
  // 999.6 would be rounded to 1000 of this unit.
  while (Math.abs(rest) >= step - 0.5 && i < units.length - 1) {
    rest /= step;
    i++;
  }
  return `${digits(rest)}${units[i] ? gap + units[i] : ''}`;
}

/** 12.3 k */
export const count = (n) => (known(n) ? scaled(n, 1000, ['', 'k', 'M', 'G', 'T', 'P']) : NONE);
/** 12.3 k/s */
export const rate = (n) => (known(n) ? `${scaled(n, 1000, ['', 'k', 'M', 'G', 'T'])}/s` : NONE);
/** 4.2 GiB */
export const bytes = (n) => (known(n) ? scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']) : NONE);
/** 4.2 MiB/s */
export const byteRate = (n) => (known(n) ? `${bytes(n)}/s` : NONE);
/** 12 % of 0.12 */
export const percent = (part) => (known(part) ? `${digits(Math.round(part * 1000) / 10)} %` : NONE);
/** A whole number with all digits. */
export const exact = (n) => (known(n) ? Number(n).toLocaleString('en') : NONE);

/** 1.3 ms of 1300 microseconds. */
export function micros(us) {
  if (!known(us)) return NONE;
  if (Math.abs(us) < 999.5) return `${digits(Math.abs(us) >= 10 ? Math.round(us) : Number(us))} us`;
  if (Math.abs(us) < 999500) return `${digits(us / 1000)} ms`;
  return duration(us / 1000);
}

/** 1.3 s, 4 min 10 s, 3 h 5 min, 2 d 4 h */
export function duration(ms) {
  if (!known(ms)) return NONE;
  if (Math.abs(ms) < 999.5) return `${digits(Number(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 59.95) return `${digits(seconds)} s`;
  const two = (big, bigUnit, small, smallUnit) =>
    small ? `${big} ${bigUnit} ${small} ${smallUnit}` : `${big} ${bigUnit}`;
  const whole = Math.round(seconds);
  if (whole < 3600) return two(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86400) return two(Math.floor(whole / 3600), 'h', Math.floor((whole % 3600) / 60), 'min');
  return two(Math.floor(whole / 86400), 'd', Math.floor((whole % 86400) / 3600), 'h');
}

const pad = (n, width = 2) => String(n).padStart(width, '0');
/** 14:03:05 in the browser's time zone. */
export function clock(ms) {
  if (!known(ms)) return NONE;
  const t = new Date(ms);
  return `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`;
}
/** 2026-03-01 14:03:05 in the browser's time zone. */
export function time(ms) {
  if (!known(ms)) return NONE;
  const t = new Date(ms);
  if (Number.isNaN(t.getTime())) return NONE;
  return `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())} ${clock(ms)}`;
}

/** The formatter for a unit of a figure. */
export function byUnit(unit) {
  return { bytes, us: micros, 'bytes/s': byteRate, '/s': rate, share: percent }[unit] ?? count;
}

/** Some MongoDB counts arrive as {$numberLong: "..."}; dates as {$date: ...}. */
export function plain(value) {
  if (value && typeof value === 'object') {
    const inner = value.$numberLong ?? value.$numberInt ?? value.$numberDouble ?? value.$numberDecimal;
    if (inner !== undefined) return Number(inner);
    if (value.$date !== undefined) {
      return typeof value.$date === 'string' ? Date.parse(value.$date) : plain(value.$date);
    }
  }
  return value;
}
