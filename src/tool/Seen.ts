/**
 * What each session has seen of files: the digest of the content that it was last shown, or that it wrote.
 *
 * - It is the process's own memory: after a restart nothing was seen, and a file is read again before it is edited.
 * - Bounded: beyond `maxSeen` the longest unused is forgotten, which only means to read that file again.
 */
import { createHash, type Hash } from "node:crypto"
import type { SessionId } from "../domain/Ids.ts"

/** How many files are remembered, all sessions together. */
export const maxSeen = 10_000

/** A memory of what was seen. */
export interface Seen {
  readonly remember: (content: { readonly session: SessionId; readonly path: string; readonly digest: string }) => void
  /** The digest of what a session saw last of a file. */
  readonly recall: (session: SessionId, path: string) => string | undefined
}

/** An empty memory of at most `limit` files. */
export const make = (limit: number = maxSeen): Seen => {
  // in the order of their last use
  const digests = new Map<string, string>()
  const remember = (key: string, digest: string) => {
    digests.delete(key)
    digests.set(key, digest)
    if (digests.size <= limit) return
    const [oldest] = digests.keys()
    if (oldest !== undefined) digests.delete(oldest)
  }
  return {
    remember: ({ digest, path, session }) => remember(keyOf(session, path), digest),
    recall: (session, path) => {
      const digest = digests.get(keyOf(session, path))
      if (digest !== undefined) remember(keyOf(session, path), digest)
      return digest
    }
  }
}

/** The digest of a content that comes in pieces. */
export const digest = (): Hash => createHash("sha256")

/** The digest of a content. */
export const digestOf = (bytes: Uint8Array): string => digest().update(bytes).digest("base64")

// internal

const keyOf = (session: SessionId, path: string): string => `${session}\0${path}`
