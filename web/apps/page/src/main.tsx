import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.js";
import { Boundary } from "./shell/boundary.js";
import { Blank } from "./thread/states.js";
import "./styles/index.css";

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Boundary
      instead={(again) => (
        <Blank icon="alert" title="This page crashed">
          <p>This is a bug in Hames. Your threads are safe: they are stored on the server.</p>
          <button type="button" className="button primary" onClick={again}>
            Try again
          </button>
        </Blank>
      )}
    >
      <App />
    </Boundary>
  </StrictMode>,
);
