package signin

import "testing"

func TestDeviceLabel(t *testing.T) {
	const webKit = "AppleWebKit/605.1.15 (KHTML, like Gecko) "
	const blink = "AppleWebKit/537.36 (KHTML, like Gecko) "
	for _, test := range []struct{ name, userAgent, label string }{
		{"Firefox", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox on Linux"},
		{"Firefox", "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox on Windows"},
		{"Firefox", "Mozilla/5.0 (Android 14; Mobile; rv:128.0) Gecko/128.0 Firefox/128.0", "Firefox on Android"},
		{"Firefox", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) " + webKit + "FxiOS/128.0 Mobile/15E148 Safari/605.1.15", "Firefox on iPhone"},
		{"Chrome", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + blink + "Chrome/126.0.0.0 Safari/537.36", "Chrome on Windows"},
		{"Chrome", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) " + blink + "Chrome/126.0.0.0 Safari/537.36", "Chrome on macOS"},
		{"Chrome", "Mozilla/5.0 (Linux; Android 10; K) " + blink + "Chrome/126.0.0.0 Mobile Safari/537.36", "Chrome on Android"},
		{"Chrome", "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) " + blink + "Chrome/126.0.0.0 Safari/537.36", "Chrome on ChromeOS"},
		{"Chrome", "Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) " + webKit + "CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1", "Chrome on iPad"},
		{"Chrome without a window", "Mozilla/5.0 (X11; Linux x86_64) " + blink + "HeadlessChrome/126.0.0.0 Safari/537.36", "Chrome on Linux"},
		{"Edge", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + blink + "Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0", "Edge on Windows"},
		{"Edge", "Mozilla/5.0 (Linux; Android 10; HD1913) " + blink + "Chrome/126.0.6478.61 Mobile Safari/537.36 EdgA/125.0.2535.96", "Edge on Android"},
		{"Edge", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) " + webKit + "Version/17.0 EdgiOS/125.2535.96 Mobile/15E148 Safari/604.1", "Edge on iPhone"},
		{"Opera", "Mozilla/5.0 (X11; Linux x86_64) " + blink + "Chrome/126.0.0.0 Safari/537.36 OPR/111.0.0.0", "Opera on Linux"},
		{"Samsung Internet", "Mozilla/5.0 (Linux; Android 10; K) " + blink + "SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36", "Samsung Internet on Android"},
		{"Safari", "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) " + webKit + "Version/17.4.1 Safari/605.1.15", "Safari on macOS"},
		{"Safari", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) " + webKit + "Version/17.4.1 Mobile/15E148 Safari/604.1", "Safari on iPhone"},
		{"a view inside an app", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) " + webKit + "Mobile/15E148", "iPhone"},
		{"a browser on an unknown system", "Mozilla/5.0 (X11; OpenBSD amd64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox"},

		{"a program", "curl/8.9.1", ""},
		{"a program that names its system", "worldwatch/2.1 (Windows)", "Windows"},
		{"none", "", ""},
		{"HTML", `<script>alert("1")</script>`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if label := deviceLabel(test.userAgent); label != test.label {
				t.Errorf("%q is %q, want %q", test.userAgent, label, test.label)
			}
		})
	}
}
