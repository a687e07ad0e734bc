package signin

import "testing"

func TestNetworkInWords(t *testing.T) {
	for _, test := range []struct{ address, words string }{
		{"203.0.113.77", "IP address 203.0.113.…"},
		{"::ffff:203.0.113.77", "IP address 203.0.113.…"},
		{"2001:db8:1:2::3", "IP address 2001:db8:1:…"},
		{"2001:db8::3", "IP address 2001:db8:…"},
		{"192.168.1.20", "Local network, 192.168.1.…"},
		{"10.1.2.3", "Local network, 10.1.2.…"},
		{"169.254.7.1", "Local network, 169.254.7.…"},
		{"fd00:1:2:3::4", "Local network, fd00:1:2:…"},
		{"fe80::1%eth0", "Local network, fe80:…"},
		{"127.0.0.1", "The computer of this service"},
		{"::1", "The computer of this service"},
		{"", ""},
		{"nowhere", ""},
	} {
		network := networkOf(test.address)
		if words := networkInWords(network, ""); words != test.words {
			t.Errorf("%s is %q, want %q", test.address, words, test.words)
		}
		if words := networkInWords(network, "198.51.100.0/24"); words != test.words {
			t.Errorf("%s is %q from elsewhere, want %q", test.address, words, test.words)
		}
		if words := networkInWords(network, network); network != "" && words != "The same as this device" {
			t.Errorf("%s is %q to itself", test.address, words)
		}
	}
}
