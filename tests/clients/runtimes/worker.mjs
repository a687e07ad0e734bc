// The program in workerd, which it runs for each request.
import { run } from "./program.mjs";

export default {
  async fetch(request) {
    const { searchParams } = new URL(request.url);
    return Response.json(await run(searchParams.get("service"), request.headers.get("Cookie"), searchParams.get("world")));
  },
};
