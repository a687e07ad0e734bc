import type { Session } from "worldevents-client";

/** Looks at the path, so each navigation comes here, and through the hook. */
export const load = ({ locals, url }: { locals: object; url: URL }) => ({ path: url.pathname, session: (locals as { session: Session }).session });
