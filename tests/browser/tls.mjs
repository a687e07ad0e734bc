// Certificates for fronts that serve over TLS.
import { execFileSync } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A certificate for these hosts, and the pin that makes Chromium believe it. */
export async function makeCertificate(...hosts) {
  const folder = await mkdtemp(join(tmpdir(), "worldevents-tls-"));
  const [keyFile, certFile] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  execFileSync("openssl", [
    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
    "-keyout", keyFile, "-out", certFile, "-subj", "/CN=worldevents test",
    "-addext", `subjectAltName=${hosts.map((host) => `DNS:${host}`)}`,
  ], { stdio: "pipe" });
  const [key, cert] = [await readFile(keyFile), await readFile(certFile)];
  await rm(folder, { recursive: true });
  const publicKey = new X509Certificate(cert).publicKey.export({ type: "spki", format: "der" });
  return { key, cert, pin: createHash("sha256").update(publicKey).digest("base64") };
}
