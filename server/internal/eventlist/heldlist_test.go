package eventlist

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"worldevents/models"
	"worldevents/server/internal/ledger"
)

// Random responses of lists begin and end. A user is charged once for each list that they hold, as large as it was when a response of
// theirs last began, and is refused beyond their share. All together are charged once for what anybody holds.
func TestHoldModel(t *testing.T) {
	type response struct{ list, user int }
	rapid.Check(t, func(t *rapid.T) {
		const share = 100 << 10
		memory := ledger.New[models.ID](ledger.Rule{Limit: 100 * share, Share: share})
		lists := make([]*heldList, 4)
		length, held := maxUncounted, holdings{small: memory}
		if rapid.Bool().Draw(t, "large") {
			length, held = maxOwn+1, holdings{memory: memory}
		}
		for i := range lists { // the first may count for nobody
			lists[i] = &heldList{json: bytes.Repeat([]byte{'a'}, length+i)}
		}
		gzip := make(map[int]int)
		charged, all := make(map[response]int), make(map[int]int)
		var responses []response
		var frees []func()
		own := func(user int) (n int) {
			for list := range lists {
				n += charged[response{list, user}]
			}
			return n
		}
		list, user := rapid.IntRange(0, len(lists)-1), rapid.IntRange(0, 2)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if len(responses) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(responses)-1).Draw(t, "which")
				r := responses[i]
				frees[i]()
				responses, frees = slices.Delete(responses, i, i+1), slices.Delete(frees, i, i+1)
				if !slices.Contains(responses, r) {
					delete(charged, r)
				}
				if !slices.ContainsFunc(responses, func(o response) bool { return o.list == r.list }) {
					delete(all, r.list)
				}
			} else {
				r := response{list.Draw(t, "list"), user.Draw(t, "user")}
				l := lists[r.list]
				if rapid.Bool().Draw(t, "gzip") {
					gzip[r.list] = len(l.content(true))
				}
				size := len(l.json) + gzip[r.list]
				if len(l.json) <= maxUncounted {
					size = 0
				}
				may := size == charged[r] || own(r.user)-charged[r]+size <= share
				free, ok := l.hold(held, models.ID{byte(r.user)})
				if ok != may {
					t.Fatalf("user %d, who holds %d bytes, may hold %d of list %d: %t", r.user, own(r.user), size, r.list, ok)
				}
				if ok && size > 0 {
					responses, frees = append(responses, r), append(frees, free)
					charged[r], all[r.list] = size, size
				}
			}
			sum := 0
			for _, n := range all {
				sum += n
			}
			if n := memory.Held(); n != sum {
				t.Fatalf("%d bytes are held, want %d", n, sum)
			}
			for user := range 3 {
				id, left := models.ID{byte(user)}, share-own(user)
				if memory.Try(id, left+1) || !memory.Try(id, left) {
					t.Fatalf("user %d is not charged %d bytes", user, own(user))
				}
				memory.Release(id, left)
			}
		}
	})
}
