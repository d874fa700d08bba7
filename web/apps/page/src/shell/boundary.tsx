/** What cannot be drawn does not take the rest of the page with it. */

import { Component, type ReactNode } from "react";

type Props = { instead: (again: () => void) => ReactNode; children: ReactNode };

export class Boundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render(): ReactNode {
    return this.state.failed ? this.props.instead(() => this.setState({ failed: false })) : this.props.children;
  }
}
