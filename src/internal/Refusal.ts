/**
 * Why a file system refused.
 */
import type { PlatformError } from "@effect/platform/Error"

/** Whether nothing is there. */
export const isMissing = (error: PlatformError): boolean => error._tag === "SystemError" && error.reason === "NotFound"

/** The reason in a few words. */
export const reasonOf = (error: PlatformError): string => {
  if (error._tag === "BadArgument") return error.description ?? "it is no path"
  switch (error.reason) {
    case "NotFound":
      return "there is no such file or folder"
    case "PermissionDenied":
      return "there is no right to it"
    case "AlreadyExists":
      return "there is something there already"
    default:
      return error.description ?? error.reason
  }
}
