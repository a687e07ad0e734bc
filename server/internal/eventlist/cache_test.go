package eventlist

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"worldevents/models"
)

// The cache has what was used last, within its bounds, and gives nobody the list of another key or another tagger.
func TestCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 64 << 10
		type entry struct {
			key  readKey
			user models.ID
			size int
			list *heldList
		}
		c, taggers := newCache(most), [2]*tagger{new(tagger), new(tagger)}
		var model []entry // the one that was used last is the last
		remove := func(match func(entry) bool) { model = slices.DeleteFunc(model, match) }
		bytesOf := func(user *models.ID) (n int) {
			for _, e := range model {
				if user == nil || e.user == *user {
					n += e.size
				}
			}
			return n
		}
		key := rapid.Custom(func(t *rapid.T) readKey { return readKey{world: fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "key"))} })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, user := key.Draw(t, "key"), models.ID{byte(rapid.IntRange(0, 12).Draw(t, "user"))}
				list := &heldList{json: make([]byte, rapid.IntRange(0, 5000).Draw(t, "bytes"))}
				c.put(cached{key: k, user: user, list: list, moment: models.NewMoment("1"), tagger: taggers[0]})
				remove(func(e entry) bool { return e.key == k })
				if size := entrySize + k.size() + list.size(); size <= most/8 {
					model = append(model, entry{k, user, size, list})
				}
				for bytesOf(&user) > most/8 {
					i := slices.IndexFunc(model, func(e entry) bool { return e.user == user })
					model = slices.Delete(model, i, i+1)
				}
				for bytesOf(nil) > most {
					model = model[1:]
				}
			},
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				found := c.get(k, taggers[0])
				i := slices.IndexFunc(model, func(e entry) bool { return e.key == k })
				if (found.list != nil) != (i >= 0) || i >= 0 && found.list != model[i].list {
					t.Fatalf("%v: found %v, the model has it at %d", k, found.list, i)
				}
				if i >= 0 {
					e := model[i]
					model = append(slices.Delete(model, i, i+1), e)
				}
			},
			"get by another tagger": func(t *rapid.T) {
				if c.get(key.Draw(t, "key"), taggers[1]).list != nil {
					t.Fatal("found")
				}
			},
			"drop": func(t *rapid.T) {
				k := key.Draw(t, "key")
				nothing := cached{key: k, moment: models.NewMoment("2"), tagger: taggers[0]}
				if rapid.Bool().Draw(t, "of no moment") {
					nothing.list, nothing.moment = &heldList{}, models.Moment{}
				}
				c.put(nothing)
				remove(func(e entry) bool { return e.key == k })
			},
			"": func(t *rapid.T) {
				if c.bytes() != bytesOf(nil) || len(c.entries) != len(model) || c.latest.list.Len() != len(model) {
					t.Fatalf("%d bytes in %d entries, want %d in %d", c.bytes(), len(c.entries), bytesOf(nil), len(model))
				}
			},
		})
	})
}
