import { hydrateRoot } from "react-dom/client";
import { Events } from "./events";

const known = JSON.parse(document.getElementById("known").textContent);
if (known) known.session.expires = new Date(known.session.expires);
hydrateRoot(document.getElementById("app"), <Events world="plaza" known={known ?? undefined} />);
