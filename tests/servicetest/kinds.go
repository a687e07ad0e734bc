package servicetest

import "time"

// kinds lists the cookies token and refreshToken that a browser may send: those of c's session, former ones, and forged ones.
var kinds = map[string]func(c *Client, claims Claims) (token, refreshToken string){
	"both cookies":      func(c *Client, _ Claims) (string, string) { return c.Cookie("token"), c.Cookie("refreshToken") },
	"the refresh token": func(c *Client, _ Claims) (string, string) { return "", c.Cookie("refreshToken") },
	"the JWT":           func(c *Client, _ Claims) (string, string) { return c.Cookie("token"), "" },
	"an expired JWT":    func(c *Client, claims Claims) (string, string) { return c.s.JWT(c.ago(claims)), "" },
	"an expired JWT and the refresh token": func(c *Client, claims Claims) (string, string) {
		return c.s.JWT(c.ago(claims)), c.Cookie("refreshToken")
	},
	"an expired JWT and an unknown refresh token": func(c *Client, claims Claims) (string, string) {
		return c.s.JWT(c.ago(claims)), RefreshToken(5)
	},
	"an expired JWT and garbage":        func(c *Client, claims Claims) (string, string) { return c.s.JWT(c.ago(claims)), "x" },
	"a spent refresh token":             func(c *Client, _ Claims) (string, string) { return "", c.spend() },
	"the JWT and a spent refresh token": func(c *Client, _ Claims) (string, string) { return c.Cookie("token"), c.spend() },
	"both cookies, signed out": func(c *Client, _ Claims) (string, string) {
		defer c.Post("/sign-out", "")
		return c.Cookie("token"), c.Cookie("refreshToken")
	},
	"a JWT without a session":          func(c *Client, claims Claims) (string, string) { return c.s.JWT(claims.Without("sid")), "" },
	"an expired JWT without a session": func(c *Client, claims Claims) (string, string) { return c.s.JWT(c.ago(claims).Without("sid")), "" },
	"a JWT of another user with the session": func(c *Client, claims Claims) (string, string) {
		return c.s.JWT(claims.And("sub", c.s.SignIn("mallory").Session.UserID)), ""
	},
	"a JWT of another key":          func(_ *Client, claims Claims) (string, string) { return forged(claims), "" },
	"an expired JWT of another key": func(c *Client, claims Claims) (string, string) { return forged(c.ago(claims)), "" },
	"an unknown refresh token":      func(*Client, Claims) (string, string) { return "", RefreshToken(7) },
	"refresh tokens that differ": func(c *Client, _ Claims) (string, string) {
		return c.Cookie("token"), c.Cookie("refreshToken") + "; refreshToken=" + RefreshToken(5)
	},
	"JWTs that differ": func(c *Client, _ Claims) (string, string) {
		return "x; token=" + c.Cookie("token"), c.Cookie("refreshToken")
	},
	"garbage": func(*Client, Claims) (string, string) { return "x", "y" },
	"none":    func(*Client, Claims) (string, string) { return "", "" },
}

func (c *Client) ago(claims Claims) Claims {
	return claims.And("exp", c.s.Clock.Now().Add(-time.Second).Unix())
}

func forged(claims Claims) string { return Sign([]byte("x"), `{"alg":"HS256"}`, claims.JSON()) }

// spend refreshes, and returns the token that was spent.
func (c *Client) spend() string {
	spent := c.Cookie("refreshToken")
	c.Get(RefreshPath).Is(200, Success)
	return spent
}

// Kind sends cookies of a kind in place of c's. Some kinds spend or end c's session.
func (c *Client) Kind(name string) RequestOption {
	_, claims := DecodeJWT(c.s.tb, c.Cookie("token"))
	token, refreshToken := kinds[name](c, claims)
	switch {
	case refreshToken == "" && token == "":
		return Cookies("")
	case refreshToken == "":
		return Cookies("token=" + token)
	case token == "":
		return Cookies("refreshToken=" + refreshToken)
	}
	return Cookies("token=" + token + "; refreshToken=" + refreshToken)
}
