package operating

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

const keySetPath = "/.well-known/jwks.json"

// pair is a private key, as a file has it and its public half, and what verifies its JWTs.
type pair struct {
	pem, publicPEM string
	public         ed25519.PublicKey
}

func newPair(t *testing.T) pair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	servicetest.NoError(t, err)
	der := servicetest.Must(x509.MarshalPKCS8PrivateKey(private))(t)
	publicDER := servicetest.Must(x509.MarshalPKIXPublicKey(public))(t)
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return pair{block("PRIVATE KEY", der), block("PUBLIC KEY", publicDER), public}
}

func (p pair) id() string { return server.KeyID(p.public) }

// keySet is what another service does with the published keys: it verifies a JWT by EdDSA alone, with the key that the JWT names.
type keySet map[string]ed25519.PublicKey

func published(t *testing.T, s *servicetest.Process) (set keySet) {
	t.Helper()
	res := s.Ask("GET", keySetPath, "", "")
	var body struct{ Keys []map[string]string }
	servicetest.NoError(t, json.Unmarshal([]byte(res.Body), &body))
	res.Is(t, 200)
	servicetest.Is(t, res.Header.Get("Cache-Control"), "public, max-age=300", "Cache-Control")
	servicetest.Is(t, res.Header.Get("Vary"), "", "Vary")
	set = make(keySet)
	for _, k := range body.Keys {
		x, err := base64.RawURLEncoding.DecodeString(k["x"])
		if err != nil || len(x) != ed25519.PublicKeySize || len(k) != 6 || k["kty"] != "OKP" || k["crv"] != "Ed25519" || k["use"] != "sig" || k["alg"] != "EdDSA" {
			t.Errorf("%v %v", k, err)
		}
		set[k["kid"]] = x
	}
	return set
}

func (set keySet) verifies(t *testing.T, token string) bool {
	t.Helper()
	header, _ := servicetest.DecodeJWT(t, token)
	end := strings.LastIndex(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(token[end+1:])
	key := set[header["kid"].(string)]
	return err == nil && header["alg"] == "EdDSA" && key != nil && ed25519.Verify(key, []byte(token[:end]), raw)
}

// With private keys the first signs and the others verify, and other services verify with what is published. Who was signed in by
// a secret stays so. With public keys alone nothing changes but what is verified and published. SIGHUP takes other keys, and a file
// that is wrong changes nothing.
func TestPrivateKeys(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		before := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_FORMAT=json", "LOG_LEVEL=warn")
		issue := func(p *servicetest.Program, args ...string) string {
			t.Helper()
			return strings.TrimSpace(p.For(t).MustRun(append([]string{"session", "issue"}, args...)...))
		}
		tokenOf := func(cookies string) string {
			token, _, _ := strings.Cut(strings.TrimPrefix(cookies, "token="), ";")
			return token
		}
		alice, carol := issue(before, "alice"), issue(before, "carol", "--expired")
		s := before.ServeReady()
		servicetest.Contains(t, s.Is(404, "GET", keySetPath, "", ""), "not_found")
		s.Stop()

		p := before.With("JWT_PRIVATE_KEY_FILE=jwt.pem")
		file := filepath.Join(p.Dir, "jwt.pem")
		a, b, c := newPair(t), newPair(t), newPair(t)
		servicetest.WriteSecret(t, file, a.publicPEM)
		s = p.ServeReady()
		is := func(what, cookies string, want int) {
			t.Helper()
			status, body := s.Do("GET", servicetest.Plaza, "", cookies)
			servicetest.Is(t, status, want, "%s: %s", what, body)
		}
		has := func(pairs ...pair) keySet {
			t.Helper()
			set := published(t, s)
			for _, p := range pairs {
				servicetest.Is(t, set[p.id()], p.public, "the published key %s", p.id())
			}
			servicetest.Is(t, len(set), len(pairs), "keys are published")
			return set
		}
		signs := func(p pair) string {
			return `SIGHUP: JWT_PRIVATE_KEY_FILE was read again","changed":true,"signs":"` + p.id() + `"`
		}
		// Several instances take their first key one after the other: one knows the key already with which another signs.
		servicetest.WriteSecret(t, filepath.Join(p.Dir, "ahead.pem"), a.pem)
		erin := issue(before.With("JWT_PRIVATE_KEY_FILE=ahead.pem"), "erin")
		is("signed by another instance", erin, 200)
		servicetest.True(t, has(a).verifies(t, tokenOf(erin)), "the published key verifies the JWT of erin")
		servicetest.True(t, !has(a).verifies(t, refreshed(t, s, erin)), "no key signs before its private half is there")
		servicetest.WriteSecret(t, file, a.pem)
		s.HangUp(signs(a))

		is("signed by a secret", alice, 200)
		bob := issue(p, "bob")
		is("signed by the private key", bob, 200)
		for who, token := range map[string]string{"bob": tokenOf(bob), "alice, refreshed": refreshed(t, s, alice)} {
			servicetest.True(t, has(a).verifies(t, token), "the published key verifies the JWT of %s", who)
		}
		// A browser that comes back with an expired JWT of the secret's gets one of the private key's.
		session := servicetest.NewBrowser(s.URL, http.DefaultTransport)
		session.Do("GET", servicetest.SessionPath, "", servicetest.Header("Cookie", carol)).Is(t, 200)
		servicetest.True(t, has(a).verifies(t, session.Cookies["token"]), "signed by the private key")

		servicetest.WriteSecret(t, file, a.pem+b.pem)
		s.HangUp(signs(a))
		has(a, b)
		servicetest.WriteSecret(t, file, b.pem+a.pem)
		s.HangUp(signs(b))
		is("signed by the former key", bob, 200)
		token := refreshed(t, s, issue(p, "dave"))
		dave := "token=" + token
		servicetest.True(t, has(a, b).verifies(t, token), "the published keys verify the JWT of dave")
		servicetest.Is(t, keyOf(t, token), b.id(), "the key that signs")
		servicetest.WriteSecret(t, file, b.pem)
		s.HangUp(signs(b))
		is("the former key is gone", bob, 401)
		is("the new key", dave, 200)
		s.Says("all former keys are gone", 0)
		has(b)
		for text, want := range map[string]string{
			"": "is empty", c.pem + "x": "and nothing else", string(c.public): "and nothing else", c.pem + c.pem: "has a key twice",
		} {
			servicetest.WriteSecret(t, file, text)
			s.HangUp(`"level":"ERROR","msg":"SIGHUP: JWT_PRIVATE_KEY_FILE stays as it is"`)
			servicetest.Contains(t, s.Log.String(), want)
		}
		has(b)
		servicetest.WriteSecret(t, file, c.pem)
		s.HangUp(signs(c))
		s.Says("JWT_PRIVATE_KEY_FILE: all former keys are gone", 1)
		is("all keys are other ones", dave, 401)
		is("signed by a secret", issue(before, "alice"), 200)
		lines := strings.Split(a.pem+b.pem+c.pem, "\n")
		showsNone(t, s, lines[1], lines[4], lines[7])
	})
}
