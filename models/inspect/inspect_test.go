package inspect

import (
	"slices"
	"testing"
)

// A schema that serve would migrate is a warning, and is not looked into: it need not have all columns.
func TestInspectVersion(t *testing.T) {
	for _, test := range []struct {
		version int64
		inside  bool
		want    Finding
	}{
		{0, false, Finding{Warning, "x", "has no tables yet: serve and migrate make them"}},
		{2, false, Finding{Warning, "x", "the schema is version 2: serve and migrate bring it to version 3"}},
		{3, true, Finding{Fine, "x", "the schema is version 3"}},
		{4, true, Finding{Warning, "x", "the schema is version 4, and this program knows 3: it is of a newer one"}},
	} {
		i := inspector{about: "x"}
		if inside := i.version(test.version, 3); inside != test.inside || !slices.Equal(i.found.Findings, []Finding{test.want}) {
			t.Errorf("version %d: %v %v", test.version, inside, i.found)
		}
	}
}
