package postgres

import (
	"strings"
	"testing"
)

// TestEncodings in tests/ refuses a real database; a server that is too old is not at hand.
func TestSupported(t *testing.T) {
	for _, test := range []struct {
		version         int
		encoding, words string
	}{
		{150000, "UTF8", ""},
		{180004, "UTF8", ""},
		{140018, "UTF8", "PostgreSQL 14 is too old: version 15 or newer is needed"},
		{90624, "UTF8", "PostgreSQL 9 is too old"},
		{150018, "LATIN1", "the encoding of the database is LATIN1: UTF8 is needed"},
		{150018, "SQL_ASCII", "SQL_ASCII"},
	} {
		if err := Supported(test.version, test.encoding); (err == nil) != (test.words == "") || err != nil && !strings.Contains(err.Error(), test.words) {
			t.Errorf("%d, %s: %v", test.version, test.encoding, err)
		}
	}
}
