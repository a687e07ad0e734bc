package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

const otherKey = "2a4c6e80b1d3f597c8e0a2d4f6081b3d5f7193a5c7e9fb0d2e4f60718293a4b5"

// write makes a file with text and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	servicetest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// from says settings whose secrets all stand in files, but for name.
func from(t *testing.T, name, path string) string {
	t.Helper()
	return "OIDC_ISSUER=https://login.example.org\nOIDC_CLIENT_ID=x\nOIDC_CLIENT_SECRET_FILE=" + write(t, "of the client") +
		"\nDATABASE_URL_FILE=" + write(t, "sqlite:from-file.db") + "\nJWT_SECRET_FILE=" + write(t, key) + "\n" + name + "=" + path
}

// A file that cannot be used is refused with its path and without anything of what is in it.
func TestSecretFileRefused(t *testing.T) {
	const long = "hunter2-hunter2-hunter2-hunter2-hunter2"
	unreadable, why := write(t, long), "permission denied"
	if os.Geteuid() == 0 {
		unreadable, why = "/proc/self/mem", "input/output error"
	} else {
		servicetest.NoError(t, os.Chmod(unreadable, 0))
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	servicetest.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, test := range []struct{ path, says string }{
		{filepath.Join(t.TempDir(), "none"), "no such file or directory"},
		{"none/none", "no such file or directory"},
		{write(t, long) + "/x", "not a directory"},
		{t.TempDir(), "is a directory"},
		{unreadable, why},
		{pipe, "is not a regular file"},
		{"/dev/null", "is not a regular file"},
		{write(t, "\r\n"), "is empty"},
		{write(t, strings.Repeat(long, 1700)), "is larger than 65536 bytes"},
		{write(t, strings.Repeat("x", 65536)+"\n"), "is larger than 65536 bytes"},
		{write(t, long+"\x00"), "has a NUL character"},
		{write(t, long+"\xff"), "is not UTF-8"},
		{write(t, "h\x00u\x00n\x00"), "has a NUL character"}, // UTF-16
		{write(t, long+"\n"+long+"\n"), "must be one line without control characters"},
		{write(t, long+"\n\n"), "must be one line without control characters"},
		{write(t, long+"\r"), "must be one line without control characters"},
	} {
		for _, setting := range []string{"JWT_SECRET_FILE", "DATABASE_URL_FILE", "OIDC_CLIENT_SECRET_FILE"} {
			setEnv(t, "APP_ENV=development\nDOCS=x", from(t, setting, test.path))
			refuses(t, setting, fmt.Sprintf("%s: %q: %s\nDOCS: must be true or false", setting, test.path, test.says))
		}
	}
	// What is in a file is held to the rules of the setting. What looks like a secret in the place of a path is not shown.
	const noPath = ": must be the path of a file, and not what is in it"
	for _, test := range []struct{ setting, path, says string }{
		{"JWT_SECRET_FILE", write(t, "short"), ": key 1 is shorter than 32 bytes"},
		{"JWT_SECRET_FILE", write(t, strings.Repeat("x", 64)), ": key 1 is one character again and again"},
		{"JWT_SECRET_FILE", write(t, key+","+key), ": key 2 is key 1 again"},
		{"JWT_SECRET_FILE", write(t, "your-256-bit-secret-"+long), ": key 1 is a known example"},
		{"JWT_SECRET_FILE", write(t, ","), ": key 1 is shorter than 32 bytes\nJWT_SECRET_FILE: key 2 is shorter than 32 bytes"},
		{"DATABASE_URL_FILE", write(t, "worldevents.db"), ": must begin with sqlite: or postgres://"},
		{"DATABASE_URL_FILE", write(t, "sqlite:"), ": sqlite: needs the path of a file"},
		{"DATABASE_URL_FILE", write(t, "mysql://u:"+long+"@h/d"), ": must begin with sqlite: or postgres://"},
		{"JWT_SECRET_FILE", key, noPath},
		{"JWT_SECRET_FILE", key[:32], noPath},
		{"JWT_SECRET_FILE", key[:31], fmt.Sprintf(": %q: no such file or directory", key[:31])},
		{"DATABASE_URL_FILE", "postgres://u:" + long + "@h/d", noPath},
		{"OIDC_CLIENT_SECRET_FILE", long, noPath},
	} {
		setEnv(t, "APP_ENV=development", from(t, test.setting, test.path))
		refuses(t, test.path, test.setting+test.says)
	}
}

// A secret and its file together are refused, whichever of them is in .env: neither is quietly without effect. An empty real
// variable takes that of .env away.
func TestSecretAndItsFile(t *testing.T) {
	const both = "%s_FILE: is set together with %[1]s, in the environment or in .env: one of them must be empty"
	for _, test := range []struct{ dotEnv, env, refused string }{
		{"", "JWT_SECRET=" + key + "\nJWT_SECRET_FILE=key", "JWT_SECRET"},
		{"JWT_SECRET=" + key, "JWT_SECRET_FILE=key", "JWT_SECRET"},
		{"JWT_SECRET_FILE=key", "JWT_SECRET=" + key, "JWT_SECRET"},
		{"JWT_SECRET=" + key + "\nJWT_SECRET_FILE=key", "", "JWT_SECRET"},
		{"JWT_SECRET=" + key, "JWT_SECRET=\nJWT_SECRET_FILE=key", ""},
		{"JWT_SECRET_FILE=none", "JWT_SECRET_FILE=\nJWT_SECRET=" + otherKey, ""},
		{"JWT_SECRET_FILE=none", "JWT_SECRET_FILE=key", ""},
		{"JWT_SECRET_FILE=key", "", ""},
		{"JWT_SECRET=" + key + "\nDATABASE_URL=sqlite:worldevents.db", "DATABASE_URL_FILE=url", "DATABASE_URL"},
		{"JWT_SECRET=" + key, "OIDC_CLIENT_SECRET=" + otherKey + "\nOIDC_CLIENT_SECRET_FILE=key\nOIDC_ISSUER=https://login.example.org\nOIDC_CLIENT_ID=x", "OIDC_CLIENT_SECRET"},
	} {
		writeDotEnv(t, test.dotEnv)
		servicetest.NoError(t, errors.Join(os.WriteFile("key", []byte(otherKey), 0o600), os.WriteFile("url", []byte("sqlite:x.db"), 0o600)))
		setEnv(t, "APP_ENV=development", test.env)
		if test.refused != "" {
			refuses(t, test.env, fmt.Sprintf(both, test.refused))
		} else {
			c := servicetest.Must(config.Load(true))(t)
			servicetest.Is(t, string(c.Keys[0]), otherKey, "%q, %q: the key", test.dotEnv, test.env)
		}
	}
}

// Files are read as Kubernetes mounts them, behind links, and with any line ending. They hold what the setting itself may.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	servicetest.NoError(t, errors.Join(
		os.Mkdir(dir+"/..2030_01_01", 0o755), os.WriteFile(dir+"/..2030_01_01/jwt", []byte(key), 0o644),
		os.Symlink("..2030_01_01", dir+"/..data"), os.Symlink("..data/jwt", dir+"/jwt"),
	))
	for path, want := range map[string]string{
		dir + "/jwt": key, write(t, key+"\n"): key, write(t, key+"\r\n"): key, write(t, key+", "+otherKey+"\n"): key + "," + otherKey,
		write(t, key+strings.Repeat(" ", 65536-len(key))): key,
	} {
		c := mustLoad(t, "APP_ENV=development", from(t, "JWT_SECRET_FILE", path))
		servicetest.Is(t, joined(c.Keys), want, "the keys in %s", path)
		servicetest.Is(t, [2]string{c.DatabaseURL, c.OIDCClientSecret}, [2]string{"sqlite:from-file.db", "of the client"}, "the others")
		servicetest.Is(t, [2]string{c.Source("JWT_SECRET"), c.Source("JWT_ISSUER")}, [2]string{"JWT_SECRET_FILE", "JWT_ISSUER"}, "the sources")
	}
	servicetest.Is(t, mustLoad(t, development).Source("JWT_SECRET"), "JWT_SECRET", "the source without a file")
	// The path of a database is set, too.
	c := mustLoad(t, production, "DATABASE_URL=\nDATABASE_URL_FILE="+write(t, "sqlite:x.db"))
	servicetest.Is(t, len(c.Warnings), 0, "warnings: %q", c.Warnings)
}

// joined are keys as JWT_SECRET has them.
func joined(keys [][]byte) string { return string(bytes.Join(keys, []byte(","))) }

// Whoever can write the file of the keys signs in as anybody: production refuses that, and development warns. The owner may be
// anybody, as a container engine mounts files of the host's users.
func TestSecretFileThatOthersCanWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	const says = `JWT_SECRET_FILE: "key": its mode lets others write it: chmod go-w`
	refuses := func(exposed bool) {
		t.Helper()
		setEnv(t, production, "JWT_SECRET=\nJWT_SECRET_FILE=key")
		c, problems := config.Inspect(true)
		file := servicetest.Must(c.ReadFile("JWT_SECRET_FILE"))(t)
		_, _, err := c.RereadKeys(file)
		want := map[bool]string{true: says + ", then " + strings.TrimPrefix(says, "JWT_SECRET_FILE: "), false: "<nil>, then <nil>"}[exposed]
		servicetest.Is(t, fmt.Sprintf("%v, then %v", errors.Join(problems...), err), want, "production")
		c = mustLoad(t, "APP_ENV=development\nJWT_SECRET_FILE=key")
		_, again, err := c.RereadKeys(file)
		servicetest.NoError(t, err)
		for _, warnings := range [][]string{c.Warnings, again} {
			servicetest.Is(t, strings.Join(warnings, "\n"), map[bool]string{true: says}[exposed], "development warns")
		}
	}
	for mode, exposed := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o444: false, 0o620: true, 0o602: true} {
		os.Remove("key")
		servicetest.NoError(t, errors.Join(os.WriteFile("key", []byte(key), 0o600), os.Chmod("key", mode)))
		refuses(exposed)
	}
	servicetest.NoError(t, os.Chmod("key", 0o644))
	give(t, "key", 65534)
	refuses(false)
}

// Keys that are read again are held to the same rules, and leave the others alone when they are refused.
func TestRereadKeys(t *testing.T) {
	file := write(t, key)
	c := mustLoad(t, production, "JWT_SECRET=\nJWT_SECRET_FILE="+file)
	for _, test := range []struct{ text, keys, says string }{
		{otherKey + "," + key + "\n", otherKey + "," + key, "<nil>"},
		{strings.Repeat("ab", 16), strings.Repeat("ab", 16), "<nil>"},
		{key + "," + hidden, "", "JWT_SECRET_FILE: key 2 is shorter than 32 bytes"},
		{"", "", fmt.Sprintf("%q: is empty", file)},
	} {
		servicetest.NoError(t, os.WriteFile(file, []byte(test.text), 0o600))
		keys, warnings, err := c.RereadKeys(servicetest.Must(c.ReadFile("JWT_SECRET_FILE"))(t))
		servicetest.Is(t, joined(keys), test.keys, "the keys in %q", test.text)
		servicetest.Is(t, fmt.Sprint(err, len(warnings)), test.says+" 0", "the error and warnings of %q", test.text)
	}
	servicetest.Is(t, string(c.Keys[0]), key, "the key of before")
}
