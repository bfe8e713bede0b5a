/** `Chrome on Android`, as the name that a field starts with. */
export function nameOfBrowser() {
  const agent = navigator.userAgent;
  const pick = (names, last) => names.find(([pattern]) => pattern.test(agent))?.[1] ?? last;
  const browser = pick(
    [
      [/Edg/, "Edge"],
      [/OPR/, "Opera"],
      [/SamsungBrowser/, "Samsung Internet"],
      [/Firefox|FxiOS/, "Firefox"],
      [/Chrome|CriOS/, "Chrome"],
      [/Safari/, "Safari"],
    ],
    "Browser",
  );
  const system = pick(
    [
      [/iPhone/, "iPhone"],
      [/iPad/, "iPad"],
      [/Android/, "Android"],
      [/Windows/, "Windows"],
      [/CrOS/, "ChromeOS"],
      [/Mac/, "Mac"],
      [/Linux/, "Linux"],
    ],
    null,
  );
  return system === null ? browser : `${browser} on ${system}`;
}
