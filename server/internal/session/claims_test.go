package session

import "testing"

func TestClaims(t *testing.T) {
	plain, _ := newTestManager()
	strict, _ := newTestManager(func(o *Options) { o.Issuer, o.Audience = "https://issuer.example", "worlds" })
	// The clock stands at 2000000000.
	for _, test := range []struct {
		name   string
		m      *Manager
		claims string
		want   error
	}{
		{"the least there is", plain, `{"sub":"s","exp":2000000001}`, nil},
		{"at exp", plain, `{"sub":"s","exp":2000000000}`, ErrExpired},
		{"just before exp", plain, `{"sub":"s","exp":2000000000.5}`, nil},
		{"iss and aud that nobody demands", plain, `{"sub":"s","exp":2000000001,"iss":"x","aud":["y"]}`, nil},
		{"unknown claims", plain, `{"sub":"s","exp":2000000001,"x":{"y":[null]}}`, nil},

		{"no sub", plain, `{"exp":2000000001}`, ErrInvalid},
		{"empty sub", plain, `{"sub":"","exp":2000000001}`, ErrInvalid},
		{"sub in another case", plain, `{"Sub":"s","exp":2000000001}`, ErrInvalid},
		{"sub twice", plain, `{"sub":"s","sub":"s","exp":2000000001}`, ErrInvalid},
		{"sub a number", plain, `{"sub":1,"exp":2000000001}`, ErrInvalid},
		{"no exp", plain, `{"sub":"s"}`, ErrInvalid},
		{"exp null", plain, `{"sub":"s","exp":null}`, ErrInvalid},
		{"exp in another case", plain, `{"sub":"s","EXP":2000000001}`, ErrInvalid},
		{"exp twice", plain, `{"sub":"s","exp":1,"exp":2000000001}`, ErrInvalid},
		{"unknown claim twice", plain, `{"sub":"s","exp":2000000001,"x":1,"x":1}`, ErrInvalid},
		{"something behind", plain, `{"sub":"s","exp":2000000001} {}`, ErrInvalid},
		{"no object", plain, `"s"`, ErrInvalid},
		{"null", plain, `null`, ErrInvalid},
		{"not UTF-8", plain, "{\"sub\":\"\xff\",\"exp\":2000000001}", ErrInvalid},

		{"exp a string", plain, `{"sub":"s","exp":"2000000001"}`, ErrInvalid},
		{"iat a string", plain, `{"sub":"s","exp":2000000001,"iat":"1"}`, ErrInvalid},
		{"nbf a string", plain, `{"sub":"s","exp":2000000001,"nbf":"1"}`, ErrInvalid},

		{"exp the end of 9999", plain, `{"sub":"s","exp":253402300799}`, nil},
		{"exp after that", plain, `{"sub":"s","exp":253402300800}`, ErrInvalid},
		{"exp 0", plain, `{"sub":"s","exp":0}`, ErrExpired},
		{"exp before 1970", plain, `{"sub":"s","exp":-1}`, ErrInvalid},
		{"exp far before 1970", plain, `{"sub":"s","exp":-1e300}`, ErrInvalid},
		{"exp beyond float64", plain, `{"sub":"s","exp":1e400}`, ErrInvalid},
		{"iat before 1970", plain, `{"sub":"s","exp":2000000001,"iat":-0.5}`, ErrInvalid},
		{"nbf before 1970", plain, `{"sub":"s","exp":2000000001,"nbf":-1}`, ErrInvalid},
		{"iat after 9999", plain, `{"sub":"s","exp":2000000001,"iat":1e300}`, ErrInvalid},

		{"iat of a clock 60 s ahead", plain, `{"sub":"s","exp":2000000999,"iat":2000000060}`, nil},
		{"iat of a clock further ahead", plain, `{"sub":"s","exp":2000000999,"iat":2000000060.5}`, ErrInvalid},
		{"nbf of a clock 60 s ahead", plain, `{"sub":"s","exp":2000000999,"nbf":2000000060}`, nil},
		{"nbf of a clock further ahead", plain, `{"sub":"s","exp":2000000999,"nbf":2000000061}`, ErrInvalid},
		{"expired, nbf too far ahead", plain, `{"sub":"s","exp":1,"nbf":2000000061}`, ErrInvalid},
		{"expired, no sub", plain, `{"exp":1}`, ErrInvalid},

		{"iss and aud", strict, `{"sub":"s","exp":2000000001,"iss":"https://issuer.example","aud":"worlds"}`, nil},
		{"aud among others", strict, `{"sub":"s","exp":2000000001,"iss":"https://issuer.example","aud":["x","worlds"]}`, nil},
		{"expired, iss and aud", strict, `{"sub":"s","exp":1,"iss":"https://issuer.example","aud":"worlds"}`, ErrExpired},
		{"no iss", strict, `{"sub":"s","exp":2000000001,"aud":"worlds"}`, ErrInvalid},
		{"another iss", strict, `{"sub":"s","exp":2000000001,"iss":"https://issuer.example/","aud":"worlds"}`, ErrInvalid},
		{"no aud", strict, `{"sub":"s","exp":2000000001,"iss":"https://issuer.example"}`, ErrInvalid},
		{"another aud", strict, `{"sub":"s","exp":2000000001,"iss":"https://issuer.example","aud":["Worlds"]}`, ErrInvalid},
		{"expired, another aud", strict, `{"sub":"s","exp":1,"iss":"https://issuer.example","aud":"x"}`, ErrInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := signed(newKey, `{"alg":"HS256"}`, test.claims)
			for range 2 { // the second time from the cache
				if _, err := test.m.Verify(token); err != test.want {
					t.Error(err)
				}
			}
		})
	}
}
