/** What the contract allows, for the fields of forms. A test holds it against openapi.yaml. */

/**
 * How long texts may be, in characters, and how large numbers. Characters are code points, as of `[...text].length`; the `maxlength` of HTML
 * counts an emoji as two.
 */
export const limits = {
  name: { minLength: 1, maxLength: 200 },
  description: { maxLength: 5000 },
  username: { minLength: 1, maxLength: 100 },
  worldId: { minLength: 1, maxLength: 128 },
  limit: { minimum: 1, maximum: 1000 },
  cursor: { minLength: 1 },
  wait: { minimum: 1, maximum: 50 },
  idempotencyKey: { minLength: 1, maxLength: 255 },
} as const;
