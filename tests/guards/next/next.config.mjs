// The service is on the page's own origin, which is its BASE_URL. `next build` reads this.
const service = process.env.SERVICE ?? "http://localhost:8080";
export default {
  rewrites: async () => ["/api", "/sign-in", "/sign-out", "/sessions"].flatMap((path) => [
    { source: path, destination: service + path }, { source: `${path}/:rest*`, destination: `${service}${path}/:rest*` },
  ]),
};
