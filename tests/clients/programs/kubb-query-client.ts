// The client that kubb's hooks import: fetch with cookies, which rejects with the error of the contract.
import type { RequestConfig } from "./kubb-client";
import call from "./kubb-client";

export type { RequestConfig, ResponseErrorConfig } from "./kubb-client";
export type ResponseConfig<TData> = { data: TData };
export type Client = typeof client;

export default async function client<TData, _TError, TVariables>(
  request: RequestConfig<TVariables>,
): Promise<ResponseConfig<TData>> {
  const response = await call<TData, unknown, TVariables>(request);
  if (!response.ok) throw response.error;
  return response;
}
