// The client that kubb's functions import: fetch with cookies, and answers whose `ok` tells `data` from `error`.

export type RequestConfig<TData = unknown> = {
  baseURL?: string;
  url?: string;
  method?: string;
  params?: object;
  data?: TData;
  headers?: Record<string, string>;
  credentials?: RequestCredentials;
  signal?: AbortSignal;
};
export type ResponseErrorConfig<TError> = TError;
export type ResponseConfig<TData, TError> =
  | { ok: true; status: 200; data: TData; headers: Headers }
  | { ok: false; status: number; error: TError; headers: Headers };
export type Client = typeof client;

export const config = { baseURL: "" };

export default async function client<TData, TError, TVariables>(
  request: RequestConfig<TVariables>,
): Promise<ResponseConfig<TData, TError>> {
  const query = new URLSearchParams(Object.entries(request.params ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])));
  const response = await fetch(`${config.baseURL}${request.url}${query.size > 0 ? `?${query}` : ""}`, {
    credentials: "include",
    ...request,
    ...(request.data !== undefined && {
      body: JSON.stringify(request.data),
      headers: { "Content-Type": "application/json", ...request.headers },
    }),
  });
  const { headers, status } = response;
  return response.ok
    ? { ok: true, status: 200, data: await response.json(), headers }
    : { ok: false, status, error: status === 304 ? undefined : await response.json(), headers };
}
