package eventlist

import (
	"context"
	"maps"
	"slices"

	"worldevents/models"
)

// maxCallers is how many callers one statement looks up.
const maxCallers = 1000

// signedOut returns which of the callers are not active.
func (l *Lists) signedOut(ctx context.Context, callers []models.Caller) (map[models.Caller]bool, error) {
	all := make(map[models.Caller]bool)
	for some := range slices.Chunk(callers, maxCallers) {
		out, err := l.store.SignedOut(ctx, some)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, out)
	}
	return all, nil
}
