import { type NextRequest, NextResponse } from "next/server";
import { guardRequest, signInUrl } from "worldevents-client";

const baseUrl = process.env.SERVICE ?? "http://localhost:8080";
export const config = { matcher: "/((?!api/|sign-in|sign-out|sessions|_next/static|_next/image).*)" };

export async function proxy(request: NextRequest) {
  const { session, cookie, headers } = await guardRequest(request, { baseUrl });
  const { pathname, search } = request.nextUrl;
  const response = session ? NextResponse.next({ request: { headers: withCookie(request, cookie) } })
    : session === null ? NextResponse.redirect(new URL(signInUrl(pathname + search), request.url), 303)
    : new NextResponse("One moment…", { status: 503, headers: { "Retry-After": "1", Refresh: "1" } });
  for (const [name, value] of headers) response.headers.append(name, value);
  return response;
}

function withCookie(request: NextRequest, cookie: string): Headers {
  const headers = new Headers(request.headers);
  headers.set("Cookie", cookie);
  return headers;
}
