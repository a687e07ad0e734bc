package main

import "worldevents/models"

type userAddCommand struct {
	Name string `arg:"" help:"1 to 100 characters, unique exactly as written."`
}

// Run adds a user.
func (a userAddCommand) Run() error {
	return operate(false, func(o *operation) error {
		user, err := o.store.AddUser(o, a.Name)
		if err != nil {
			return err
		}
		o.audit("user add", "user", user.ID, "username", user.Username)
		return printJSON(struct {
			ID       models.ID `json:"id"`
			Username string    `json:"username"`
		}(user))
	})
}
