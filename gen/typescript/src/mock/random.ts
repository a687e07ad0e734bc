/** Texts that nobody can guess, also where the page is not secure and `crypto.randomUUID` is missing. */
export function randomHex(characters: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(characters / 2));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A UUID of version 4, or of version 7 where its first 15 digits are given (RFC 9562). */
export function uuid(begin?: string): string {
  const random = randomHex(32);
  const digits = begin ? `${begin.slice(0, 12)}7${begin.slice(12)}` : `${random.slice(0, 12)}4${random.slice(13, 16)}`;
  const variant = "89ab"[Number.parseInt(random[16]!, 16) % 4];
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12), variant + random.slice(17, 20), random.slice(20)].join("-");
}
